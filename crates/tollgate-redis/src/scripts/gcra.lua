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
-- A spend from one bucket, not in shadow, has a shorter form: fewer arguments take less time.
--   rule, depth, price, since; rate, if it is not 1 or a moment follows; the moment, if it is told
--
-- Answers the moment, and for each key the ticks that it owed before: the caller knows the rest.

local call, argv, format = redis.call, ARGV, string.format
local is_short = not argv[7]
local now, spare = argv[is_short and 6 or 1], 2
if not now or now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
else
  -- A clock of the caller's says nothing about when this server may forget.
  now, spare = now + 0, 86400000
end

-- The way of nearly all asks: a spend from one bucket that was last written under the same rule.
if is_short then
  local key, rule, depth, price = KEYS[1], argv[1], argv[2], argv[3] + 0
  local rate = (argv[5] or 1) + 0
  local value, debt = call('GET', key), 0
  if value then
    local at, owed, under = string.match(value, '^(%d+) (%d+) (.+)$')
    local passed = under == rule and now - at
    debt = passed and passed >= 0 and owed - passed * rate
    if debt and debt < 0 then debt = 0 end
  end
  if debt then
    if price > 0 and price <= depth - debt then
      local owed = debt + price
      call('SET', key, format('%d %d %s', now, owed, rule),
        'PX', format('%d', owed / rate / 1000 + spare))
    end
    return { now, debt }
  end
  argv = { '', '1', rule, rate, depth, price, argv[4] }
end

