-- Writes what was counted elsewhere under KEYS[1], unless what is there owes as much.
--
-- ARGV: 'bucket', at, debt, step, rate, burst, tokens that are owed besides
--       'average', at, rate, period
--       'quota', remaining, the moment it expires as seconds and nanoseconds, unit
--
-- Answers 1 if it was written, 0 if what is there owes as much, 2 if nothing is owed any more.

local call, argv, key = redis.call, ARGV, KEYS[1]
local time = call('TIME')
local secs, micros = time[1] + 0, time[2] + 0
local now = secs * 1000000 + micros
local there = call('GET', key)

local function not_ours()
  return redis.error_reply('NOTABUCKET the value of ' .. key .. ' is not of Ratekeeper')
end

local function put(value, ms)
  call('SET', key, value, 'PX', string.format('%d', ms + 2))
  return 1
end

-- The ticks that are still owed of a debt, and of tokens besides; a clock that is behind gives nothing
-- back. What has come back of a token is a debt below zero.
local function owed(at, debt, rate, step, hidden)
  if at < now then debt = debt - (now - at) * rate end
  if debt < 0 then
    local back = math.min(hidden, math.floor(-debt / step))
    debt, hidden = debt + back * step, hidden - back
    if hidden == 0 then debt = 0 end
  end
  return debt, hidden
end

local function bucket(at, debt, step, rate, burst, hidden)
  debt, hidden = owed(at, debt, rate, step, hidden)
  if debt <= 0 and hidden == 0 then return 2 end
  local rule, held = string.format('%d/%d %d', step, rate, burst), ''
  local ms = math.min((debt + hidden * step) / rate / 1000, 9007199254740991)
  if hidden > 0 then held = string.format(' +%d', hidden) end
  if there then
    local old_at, old_debt, under, old_step, old_rate, rest =
      string.match(there, '^(%d+) (%-?%d+) ((%d+)/(%d+) %d+)(.*)$')
    if not old_at then return not_ours() end
    local besides, old_held = string.match(rest, '^ %+(%d+)(.*)$')
    if besides then rest = old_held else besides = 0 end
    local old, old_hidden = owed(old_at + 0, old_debt + 0, old_rate + 0, old_step + 0, besides + 0)
    if under == rule then
      if (old - debt) + (old_hidden - hidden) * step >= 0 then return 0 end
      -- A transaction that holds something goes on, but nothing is owed because of it any more:
      -- without it as much would be.
      local tx, taken = string.match(rest, '^ (%x+) %d+ (%d+)$')
      if tx then held, ms = string.format('%s %s 0 %s', held, tx, taken), math.max(ms, 1000) end
    elseif old / old_step + old_hidden >= debt / step + hidden then
      return 0
    end
  end
  return put(string.format('%d %d %s%s', now, debt, rule, held), ms)
end

-- What an average would say if it were used now.
local function average_now(at, rate, period)
  local periods = math.max(now - at, 1) / 1000000 / period
  local decay = math.exp(-periods)
  return (1 - decay) / periods + decay * rate
end

local function average(at, rate_text, period_text)
  local rate, period = rate_text + 0, period_text + 0
  if at > now then at = now end
  local idle = 20
  while (1 - math.exp(-idle)) / idle + math.exp(-idle) * rate >= 0.05 do idle = idle + 1 end
  local ms = idle * period * 1000 - (now - at) / 1000
  if ms <= 0 then return 2 end
  if there then
    local old_at, old_rate, old_period = string.match(there, '^(%d+) (%S+) (%S+)$')
    old_rate, old_period = tonumber(old_rate or ''), tonumber(old_period or '')
    if not old_rate or not old_period then return not_ours() end
    if average_now(old_at + 0, old_rate, old_period) >= average_now(at, rate, period) then
      return 0
    end
  end
  return put(string.format('%d %s %s', at, rate_text, period_text), ms)
end

-- Whether one number in digits is less than another, without leading zeros; they have 64 bits.
local function is_less(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end

local function quota(remaining, expires, fraction, unit)
  local ms = (expires - secs) * 1000 + (fraction / 1000 - micros) / 1000
  if ms <= 0 then return 2 end
  if there then
    local left, old_expires, old_fraction =
      string.match(there, '^(%d+) (%d+)%.(%d+) %a+$')
    if not left then return not_ours() end
    local is_alive = old_expires + 0 > secs
      or old_expires + 0 == secs and old_fraction / 1000 > micros
    if is_alive and not is_less(remaining, left) then return 0 end
  end
  return put(string.format('%s %d.%09d %s', remaining, expires, fraction, unit), ms)
end

if argv[1] == 'bucket' then
  return bucket(argv[2] + 0, argv[3] + 0, argv[4] + 0, argv[5] + 0, argv[6] + 0, argv[7] + 0)
elseif argv[1] == 'average' then
  return average(argv[2] + 0, argv[3], argv[4])
end
return quota(argv[2], argv[3] + 0, argv[4] + 0, argv[5])
