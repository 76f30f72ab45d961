-- One slot's part of a transaction whose buckets are in several slots.
--
-- ARGV[1]  the moment in microseconds, or '' for the clock of this server
-- ARGV[2]  'hold': take what is asked for, and remember that it may have to go back
--          'keep': the transaction is allowed; do the rest of it
--          'drop': it is not; give back what was taken
-- ARGV[3]  the number of the transaction
-- then six for each key, as for a transaction in one slot.
--
-- A bucket is held by one transaction at a time, so that two of them are never seen half done.
-- Answers the moment; 0 if the buckets are held by another, 1 if the transaction is denied here, 2
-- if it was done; and for each key the ticks that it owed before, and the tokens that were owed besides.

local argv, step, tx = ARGV, ARGV[2], ARGV[3]
local now, spare = argv[1], 2
if now == '' then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
else
  now, spare = now + 0, 86400000
end

local buckets, denied, busy = {}, false, false
local answer = { now, 2 }
for i, key in ipairs(KEYS) do
  local a = i * 6 - 2
  local price, depth = argv[a + 4] + 0, argv[a + 3] + 0
  local bucket = read(key, argv[a + 1], argv[a + 2] + 0, argv[a + 5] + 0, now)
  bucket.what, bucket.price, bucket.depth = argv[a], price, depth
  bucket.fits = price <= depth - bucket.debt
  if bucket.what == '6' or not bucket.fits and (bucket.what == '1' or bucket.what == '2') then
    denied = true
  end
  busy = busy or bucket.tx ~= nil
  buckets[i] = bucket
  answer[2 * i + 1], answer[2 * i + 2] = bucket.debt, bucket.hidden
end

local function hold(bucket)
  local ticks = 0
  if bucket.fits and (bucket.what == '1' or bucket.what == '3') then ticks = bucket.price end
  bucket.debt = bucket.debt + ticks
  bucket.tx, bucket.held, bucket.taken, bucket.dirty = tx, ticks, now, true
end

local function keep(bucket)
  local what = bucket.what
  if bucket.tx == tx then
    bucket.tx, bucket.held, bucket.dirty = nil, 0, true
  elseif what == '1' or what == '3' then
    -- It came too late and was given back: take it again, as far as there is something to take.
    bucket.debt, bucket.dirty = math.min(bucket.depth, bucket.debt + bucket.price), true
  end
  local debt, hidden = bucket.debt, bucket.hidden
  if what == '4' then
    lower(bucket, bucket.price)
  elseif what == '5' then
    bucket.debt, bucket.held, bucket.tx, bucket.hidden = 0, 0, nil, 0
  end
  if bucket.debt < debt then bucket.gained, bucket.dirty = true, true end
  if bucket.hidden < hidden then bucket.dirty = true end
end

if step == 'hold' then
  if busy then answer[2] = 0 elseif denied then answer[2] = 1 end
end
for _, bucket in ipairs(buckets) do
  if step == 'keep' then
    keep(bucket)
  elseif step == 'drop' then
    if bucket.tx == tx then give_back(bucket) end
  elseif answer[2] == 2 then
    hold(bucket)
  end
  if bucket.dirty then write(bucket, spare) end
  if bucket.gained then publish(bucket) end
end
return answer
