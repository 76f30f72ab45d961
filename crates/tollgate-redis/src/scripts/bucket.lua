-- Reading and writing a bucket, whatever was done to it before.
--
-- A value is 'at debt step/rate burst', and ' txid ticks taken' while a transaction that spans slots
-- holds something: without it so many ticks less would be owed. They go back if nobody says within
-- LIFETIME microseconds of when it was taken that the transaction was allowed.

local LIFETIME = 1000000

-- How much of `a * b / c` is whole, and whether there is more, for a < c: a long division, because
-- the product does not fit in a double.
local function share(a, b, c)
  local product = a * b
  if product < 9007199254740992 then
    local whole = math.floor(product / c)
    -- The division may have rounded up to the next whole number.
    if whole * c > product then whole = whole - 1 end
    return whole, whole * c < product
  end
  local bits, whole, rest = {}, 0, 0
  while b > 0 do
    bits[#bits + 1] = b % 2
    b = math.floor(b / 2)
  end
  for i = #bits, 1, -1 do
    whole = whole * 2
    if rest >= c - rest then
      rest, whole = rest - (c - rest), whole + 1
    else
      rest = rest * 2
    end
    if bits[i] == 1 then
      if rest >= c - a then
        rest, whole = rest - (c - a), whole + 1
      else
        rest = rest + a
      end
    end
  end
  return whole, rest > 0
end

-- A debt under a rule of `step` per token, under one of `new_step` per token. What is left of a tick
-- counts as one; nobody owes more than there is room for.
local function convert(debt, step, new_step, new_burst, depth)
  local part = math.fmod(debt, step)
  local tokens = (debt - part) / step
  if tokens >= new_burst then return depth end
  local whole, more = share(part, new_step, step)
  local ticks = tokens * new_step + whole
  if more then return ticks + 1 end
  return ticks
end

-- Takes ticks off what is owed, because they were given back or time has passed. What is held
-- shrinks once nothing else is owed.
local function lower(bucket, ticks)
  if ticks <= 0 then return end
  local free = math.max(0, bucket.debt - bucket.held - ticks)
  bucket.debt = math.max(0, bucket.debt - ticks)
  bucket.held = bucket.debt - free
end

-- Gives back what a transaction held.
local function give_back(bucket)
  bucket.gained = bucket.gained or bucket.held > 0
  bucket.debt = bucket.debt - bucket.held
  bucket.tx, bucket.held, bucket.dirty = nil, 0, true
end

local function not_a_bucket(key)
  error({ err = 'NOTABUCKET the value of ' .. key .. ' is not a bucket of Tollgate' })
end

-- The bucket as of `now`, under the rule that is asked by. What was written under another is
-- carried over as of `since`: tokens that are owed stay owed, and come back at the new rate. A rule
-- that is in force only now came with the ask; nobody else knows that the rate is a new one.
local function read(key, rule, rate, depth, since, now)
  local bucket = { key = key, rule = rule, rate = rate, now = now, debt = 0, held = 0 }
  local value = redis.call('GET', key)
  if not value then return bucket end
  local at, debt, under, step, old_rate, rest =
    string.match(value, '^(%d+) (%d+) ((%d+)/(%d+) %d+)(.*)$')
  if not at then not_a_bucket(key) end
  bucket.found, bucket.debt, at = true, debt + 0, at + 0
  if rest ~= '' then
    local tx, ticks, taken = string.match(rest, '^ (%x+) (%d+) (%d+)$')
    if not tx then not_a_bucket(key) end
    bucket.tx, bucket.held, bucket.taken = tx, ticks + 0, taken + 0
  end
  if at > now then
    -- The clock stepped back. No time passed that anyone knows of; count from here.
    at, bucket.dirty = now, true
    if bucket.tx and bucket.taken > now then bucket.taken = now end
  end
  if under ~= rule then
    bucket.dirty = true
    if since < at then since = at elseif since > now then since, bucket.gained = now, true end
    lower(bucket, (since - at) * old_rate)
    at = since
    local new_step, new_burst = string.match(rule, '^(%d+)/%d+ (%d+)$')
    local function carried(ticks)
      return convert(ticks, step + 0, new_step + 0, new_burst + 0, depth)
    end
    local free = carried(bucket.debt - bucket.held)
    bucket.debt = carried(bucket.debt)
    bucket.held = bucket.debt - free
  end
  lower(bucket, (now - at) * rate)
  if bucket.tx and now - bucket.taken >= LIFETIME then give_back(bucket) end
  return bucket
end

-- Writes what is owed, for at least as long as it is; a bucket that is full is not kept.
local function write(bucket, spare)
  local ms, held = bucket.debt / bucket.rate / 1000, ''
  if bucket.tx then
    held = string.format(' %s %d %d', bucket.tx, bucket.held, bucket.taken)
    ms = math.max(ms, LIFETIME / 1000)
  end
  if bucket.debt > 0 or bucket.tx then
    local value = string.format('%d %d %s%s', bucket.now, bucket.debt, bucket.rule, held)
    redis.call('SET', bucket.key, value, 'PX', string.format('%d', ms + spare))
  elseif bucket.found then
    redis.call('DEL', bucket.key)
  end
end

-- Tells all servers that a bucket has more tokens than time gave it. Not being allowed to is not
-- worth failing for: they find out when they ask.
local function publish(bucket)
  redis.pcall('PUBLISH', 'tollgate:changed', bucket.key)
end

