-- Counts one use of the key KEYS[1], by the formula of a decaying average.
--
-- ARGV: the moment in microseconds, or '' for the clock of this server; how many uses per period
-- are too many; the period in seconds; 1 if refused uses count too.
--
-- The value is 'at rate period': when it was last counted, in microseconds, the uses per period
-- then, and the period in seconds.
--
-- Answers the moment, whether the use is refused, and the rate as text that loses nothing.

local call, argv, key = redis.call, ARGV, KEYS[1]
local now, spare = argv[1], 2
if now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
else
  now, spare = now + 0, 86400000
end
local limit, period = argv[2] + 0, argv[3] + 0

local value, rate, text = call('GET', key), 0, '0'
if value then
  local at, last = string.match(value, '^(%d+) (%S+) %S+$')
  last = at and tonumber(last)
  if not last then
    return redis.error_reply('NOTABUCKET the value of ' .. key .. ' is not an average of Ratekeeper')
  end
  -- In nanoseconds first: these are the doubles that the engine computes with.
  local interval = now * 1000 / 1e9 - at * 1000 / 1e9
  if interval <= 0 then interval = 1e-9 end
  local periods = interval / period
  local decay = math.exp(-periods)
  rate = (1 - decay) / periods + decay * last
  text = string.format('%.17g', rate)
end

local over = rate >= limit
if not value or not over or argv[4] == '1' then
  -- The first whole period after which the rate is printed as 0.0 for ever after.
  local idle = 20
  while true do
    local decay = math.exp(-idle)
    if (1 - decay) / idle + decay * rate < 0.05 then break end
    idle = idle + 1
  end
  call('SET', key, string.format('%d %s %s', now, text, argv[3]),
    'PX', string.format('%d', idle * period * 1000 + spare))
end
return { now, over and 1 or 0, text }
