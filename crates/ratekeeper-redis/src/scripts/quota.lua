-- Answers one request to the quota KEYS[1].
--
-- ARGV[1]  the moment in microseconds, or '' for the clock of this server
-- ARGV[2]  what is asked: insert, query, touch, purge, or what to change: 'quota' or 'lifetime'
-- insert:  quota, usage, the lifetime as seconds and nanoseconds, its unit (ns, ms, s)
-- changes: set, add or take; the value
--
-- The value is 'remaining seconds.nanoseconds unit': how many uses are left, when it expires, and
-- what its lifetime is counted in.
--
-- Answers the moment as seconds and microseconds; whether it was done, or exists; and, unless there
-- is nothing to tell: how many are left (as text: they go up to 2^64), the unit, and when it
-- expires as seconds and nanoseconds.
--
-- Doubles hold no 64 bits. So a number of uses is two limbs in base 10^9, and a moment is seconds
-- and nanoseconds.

local call, argv, key = redis.call, ARGV, KEYS[1]
local BASE = 1000000000
local SECONDS_MAX, NANOS_MAX = 9223372036, 854775807

local secs, micros, spare = nil, nil, 2
if argv[1] == '' then
  local time = call('TIME')
  secs, micros = time[1] + 0, time[2] + 0
else
  local moment = argv[1] + 0
  secs, spare = math.floor(moment / 1000000), 86400000
  micros = moment - secs * 1000000
end
local nanos = micros * 1000

-- The limbs of a number in decimal digits.
local function limbs(digits)
  if #digits <= 9 then return 0, digits + 0 end
  return string.sub(digits, 1, -10) + 0, string.sub(digits, -9) + 0
end

local function digits(high, low)
  if high == 0 then return string.format('%d', low) end
  return string.format('%d%09d', high, low)
end

local function is_less(high, low, other_high, other_low)
  return high < other_high or high == other_high and low < other_low
end

-- Never below zero.
local function minus(high, low, less_high, less_low)
  if is_less(high, low, less_high, less_low) then return 0, 0 end
  high, low = high - less_high, low - less_low
  if low < 0 then high, low = high - 1, low + BASE end
  return high, low
end

-- Never above `max`.
local function plus(high, low, more_high, more_low, max_high, max_low)
  high, low = high + more_high, low + more_low
  if low >= BASE then high, low = high + 1, low - BASE end
  if is_less(max_high, max_low, high, low) then return max_high, max_low end
  return high, low
end

-- So many of a unit, as seconds and nanoseconds; what is beyond all moments may be inexact.
local function length(high, low, unit)
  if unit == 'ns' then return high, low end
  if unit == 's' then return high * BASE + low, 0 end
  local whole = math.floor(low / 1000)
  return high * 1000000 + whole, (low - whole * 1000) * 1000000
end

local function answer(done, high, low, unit, expires, fraction)
  return { secs, micros, done, digits(high, low), unit, expires, fraction }
end

local function write(high, low, unit, expires, fraction)
  local ms = (expires - secs) * 1000 + (fraction - nanos) / 1000000
  call('SET', key, string.format('%s %d.%09d %s', digits(high, low), expires, fraction, unit),
    'PX', string.format('%d', ms + spare))
end

local what = argv[2]
local value = call('GET', key)
local high, low, unit, expires, fraction
if value then
  local left, e, f, u = string.match(value, '^(%d+) (%d+)%.(%d+) (%a+)$')
  if not left then
    return redis.error_reply('NOTABUCKET the value of ' .. key .. ' is not a quota of Ratekeeper')
  end
  expires, fraction, unit = e + 0, f + 0, u
  if is_less(secs, nanos, expires, fraction) then high, low = limbs(left) end
end

if what == 'insert' then
  local usage_high, usage_low = limbs(argv[4])
  local asked = argv[7]
  if high then
    if is_less(high, low, usage_high, usage_low) then
      return answer(0, high, low, asked, expires, fraction)
    end
    if usage_high > 0 or usage_low > 0 then
      high, low = minus(high, low, usage_high, usage_low)
      write(high, low, unit, expires, fraction)
    end
    return answer(1, high, low, asked, expires, fraction)
  end
  high, low = limbs(argv[3])
  expires, fraction = plus(secs, nanos, argv[5] + 0, argv[6] + 0, SECONDS_MAX, NANOS_MAX)
  if is_less(high, low, usage_high, usage_low) then
    return answer(0, high, low, asked, expires, fraction)
  end
  high, low = minus(high, low, usage_high, usage_low)
  if is_less(secs, nanos, expires, fraction) then
    write(high, low, asked, expires, fraction)
  end
  return answer(1, high, low, asked, expires, fraction)
end

if not high then return { secs, micros, 0 } end

if what == 'purge' then
  call('DEL', key)
elseif what == 'quota' or what == 'lifetime' then
  local how, by_high, by_low = argv[3], limbs(argv[4])
  if what == 'quota' then
    if how == 'set' then
      high, low = by_high, by_low
    elseif how == 'add' then
      high, low = plus(high, low, by_high, by_low, 18446744073, 709551615)
    else
      high, low = minus(high, low, by_high, by_low)
    end
  else
    local by, part = length(by_high, by_low, unit)
    if how == 'set' then
      expires, fraction = plus(secs, nanos, by, part, SECONDS_MAX, NANOS_MAX)
    elseif how == 'add' then
      expires, fraction = plus(expires, fraction, by, part, SECONDS_MAX, NANOS_MAX)
    else
      expires, fraction = minus(expires, fraction, by, part)
    end
  end
  if is_less(secs, nanos, expires, fraction) then
    write(high, low, unit, expires, fraction)
  else
    call('DEL', key)
  end
end
return answer(1, high, low, unit, expires, fraction)
