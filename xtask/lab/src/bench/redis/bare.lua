-- What somebody writes who needs one limit and nothing else: GCRA in microseconds, by the clock of
-- the server. Answers whether it passes, and how long to wait.
--
-- ARGV: how long a token takes to come back, how long a full bucket takes to fill, tokens
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local full_at = tonumber(redis.call('GET', KEYS[1]) or now)
if full_at < now then full_at = now end
local next_full_at = full_at + ARGV[1] * ARGV[3]
local wait = next_full_at - now - ARGV[2]
if wait > 0 then return { 0, wait } end
redis.call('SET', KEYS[1], string.format('%d', next_full_at),
  'PX', math.ceil((next_full_at - now) / 1000))
return { 1, 0 }
