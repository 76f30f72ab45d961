-- GCRA as people write it for Redis: one key holds when the bucket is full again, in microseconds.
local burst, count, period, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local step = period * 1000000 / count
local full = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now)
local new = full + step * cost
local wait = new - now - step * burst
if wait > 0 then
  return {1, burst, math.floor((now + step * burst - full) / step), math.ceil(wait / 1000000), math.ceil((full - now) / 1000000)}
end
redis.call('SET', KEYS[1], string.format('%.0f', new), 'PX', math.ceil((new - now) / 1000))
return {0, burst, math.floor(-wait / step), -1, math.ceil((new - now) / 1000000)}
