-- Decides one transaction over the buckets KEYS, all or nothing, and writes what it changed.
--
-- ARGV[1]   the moment in microseconds, or '' for the clock of this server
-- then six for each key:
--   what    1 spend, 2 check, 3 spend if there is room, 4 refund, 5 reset,
--           6 deny the transaction, 7 only look
--   rule    'step/rate burst', as it stands in the value
--   rate    ticks per microsecond
--   depth   ticks from empty to full
--   price   ticks that are asked for, at most `depth`
--   since   the moment from which the rule is in force
--
-- Answers the moment, and for each key the ticks that it owed before: the caller knows the rest.

local call, argv, format = redis.call, ARGV, string.format
local now, spare = argv[1], 2
if now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
else
  -- A clock of the caller's says nothing about when this server may forget.
  now, spare = now + 0, 86400000
end

-- The way of nearly all asks: a spend from one bucket that was last written under the same rule.
if argv[2] == '1' and not KEYS[2] then
  local key, rule, rate = KEYS[1], argv[3], argv[4]
  local value, debt = call('GET', key), 0
  if value then
    local at, owed, under = string.match(value, '^(%d+) (%d+) (.+)$')
    if under == rule and at + 0 <= now then
      debt = owed - (now - at) * rate
      if debt < 0 then debt = 0 end
    else
      debt = nil
    end
  end
  if debt then
    local price = argv[6] + 0
    if price > 0 and price <= argv[5] - debt then
      local owed = debt + price
      call('SET', key, format('%d %d %s', now, owed, rule),
        'PX', format('%d', owed / rate / 1000 + spare))
    end
    return { now, debt }
  end
end

