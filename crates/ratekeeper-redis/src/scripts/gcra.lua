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
-- Spends by one rule that have nothing to do with each other have a shorter form, in which a bucket
-- may come more than once: what is said once for many takes less time.
--   a price for each key; rule, depth, since; rate, if it is not 1 or a moment follows; the moment,
--   if it is told
--
-- Answers the moment, and for each key the ticks that it owed before: the caller knows the rest. If
-- a transaction that spans slots holds some of them, they are told as -1 - ticks. If tokens are owed
-- besides, both are told as text, 'ticks tokens'. In the shorter
-- form a key that is not a bucket is answered by an error of its own.

local call, argv, format, match = redis.call, ARGV, string.format, string.match
local count = #KEYS
local is_short = not argv[count + 6]
local now, spare = argv[is_short and count + 5 or 1], 2
if not now or now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
else
  -- A clock of the caller's says nothing about when this server may forget.
  now, spare = now + 0, 86400000
end

-- The way of nearly all asks: spends from buckets that were last written under the same rule. Those
-- for which it does not hold come after the others; which are all of the same bucket, or none.
local answer, later = { now }, nil
if is_short then
  local rule, depth, rate = argv[count + 1], argv[count + 2] + 0, (argv[count + 4] or 1) + 0
  local pattern = '^(%d+) (%d+) ' .. rule .. '$'
  for i = 1, count do
    local key, price = KEYS[i], argv[i] + 0
    local value, debt = redis.pcall('GET', key), 0
    if value then
      local at, owed
      if not value.err then at, owed = match(value, pattern) end
      local passed = at and now - at
      debt = passed and passed >= 0 and owed - passed * rate
      if debt and debt < 0 then debt = 0 end
    end
    if debt then
      if price > 0 and price <= depth - debt then
        local owed = debt + price
        call('SET', key, format('%d %d %s', now, owed, rule),
          'PX', format('%d', owed / rate / 1000 + spare))
      end
      answer[i + 1] = debt
    else
      later = later or {}
      later[#later + 1] = i
    end
  end
  if not later then return answer end
end

