-- The value of the key KEYS[1]. A script, because scripts follow a slot that moves.
return redis.call('GET', KEYS[1])
