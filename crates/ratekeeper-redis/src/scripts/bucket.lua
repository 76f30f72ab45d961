-- Reading and writing a bucket, whatever was done to it before.
--
-- A value is 'at debt step/rate burst'; ' +tokens' if more is owed than a bucket can show, because its
-- limit was lowered; and ' txid ticks taken' while a transaction that spans slots holds something:
-- without it so many ticks less would be owed. They go back if nobody says within LIFETIME microseconds
-- of when it was taken that the transaction was allowed.
--
-- Tokens that are hidden come back one by one while nothing else is owed. What has come back of the
-- next one is a debt below zero.

local LIFETIME = 1000000
-- Doubles hold every whole number up to this one. No key lives longer than so many milliseconds.
local WHOLE_MAX = 9007199254740991

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

-- A debt under a rule of `step` per token, under one of `new_step` per token: whole tokens, and ticks.
-- What is left of a tick counts as one.
local function convert(debt, step, new_step)
  local part = math.fmod(debt, step)
  local whole, more = share(part, new_step, step)
  if more then whole = whole + 1 end
  return (debt - part) / step, whole
end

-- Takes ticks off what is hidden.
local function unhide(bucket, ticks)
  ticks = ticks + bucket.credit
  local back = math.floor(ticks / bucket.step)
  -- The division may have rounded up to the next whole number; and of more ticks than doubles count,
  -- nobody knows the last ones.
  if back * bucket.step > ticks or ticks > WHOLE_MAX then back = back - 1 end
  back = math.min(back, bucket.hidden)
  bucket.hidden, bucket.credit = bucket.hidden - back, 0
  if bucket.hidden > 0 then bucket.credit = math.min(ticks - back * bucket.step, bucket.step - 1) end
end

-- Takes ticks off what is owed, because they were given back or time has passed. What is held
-- shrinks once nothing else is owed, and what is hidden last.
local function lower(bucket, ticks)
  if ticks <= 0 then return end
  local free, rest = math.max(0, bucket.debt - bucket.held - ticks), ticks - bucket.debt
  bucket.debt = math.max(0, -rest)
  bucket.held = bucket.debt - free
  if rest > 0 and bucket.hidden > 0 then unhide(bucket, rest) end
end

-- Brings over what is owed to another rule. So many whole tokens are hidden that the bucket shows no
-- more than it holds; of these, what a transaction holds is not given back.
local function carry_over(bucket, new_step, new_burst)
  local function carried(ticks)
    local tokens, part = convert(ticks, bucket.step, new_step)
    return tokens + bucket.hidden, part
  end
  local tokens, part = carried(bucket.debt)
  local free, free_part = carried(bucket.debt - bucket.held)
  local hidden = tokens - new_burst
  if part > 0 then hidden = hidden + 1 end
  hidden = math.max(0, hidden)
  bucket.debt = (tokens - hidden) * new_step + part
  bucket.held = bucket.debt - math.max(0, (free - hidden) * new_step + free_part)
  bucket.hidden, bucket.credit, bucket.step = hidden, 0, new_step
end

-- Gives back what a transaction held.
local function give_back(bucket)
  bucket.gained = bucket.gained or bucket.held > 0
  bucket.debt = bucket.debt - bucket.held
  bucket.tx, bucket.held, bucket.dirty = nil, 0, true
end

local function not_a_bucket(key)
  error({ err = 'NOTABUCKET the value of ' .. key .. ' is not a bucket of Ratekeeper' })
end

-- The bucket as of `now`, under the rule that is asked by. What was written under another is
-- carried over as of `since`: tokens that are owed stay owed, and come back at the new rate. A rule
-- that is in force only now came with the ask; nobody else knows that the rate is a new one.
local function read(key, rule, rate, since, now)
  local bucket = { key = key, rule = rule, rate = rate, now = now }
  bucket.debt, bucket.held, bucket.hidden, bucket.credit, bucket.step = 0, 0, 0, 0, 0
  local value = redis.call('GET', key)
  if not value then return bucket end
  local at, debt, under, step, old_rate, rest =
    string.match(value, '^(%d+) (%-?%d+) ((%d+)/(%d+) %d+)(.*)$')
  if not at then not_a_bucket(key) end
  bucket.found, at, bucket.step = true, at + 0, step + 0
  bucket.debt, bucket.credit = math.max(0, debt + 0), math.max(0, -debt)
  local hidden, held = string.match(rest, '^ %+(%d+)(.*)$')
  if hidden then bucket.hidden, rest = hidden + 0, held end
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
    carry_over(bucket, new_step + 0, new_burst + 0)
  end
  lower(bucket, (now - at) * rate)
  if bucket.tx and now - bucket.taken >= LIFETIME then give_back(bucket) end
  return bucket
end

-- Writes what is owed, for at least as long as it is; a bucket that is full is not kept.
local function write(bucket, spare)
  local debt, more, held = bucket.debt, '', ''
  if bucket.hidden > 0 then
    if debt == 0 then debt = -bucket.credit end
    more = string.format(' +%d', bucket.hidden)
  end
  local ms = math.min((debt + bucket.hidden * bucket.step) / bucket.rate / 1000, WHOLE_MAX)
  if bucket.tx then
    held = string.format(' %s %d %d', bucket.tx, bucket.held, bucket.taken)
    ms = math.max(ms, LIFETIME / 1000)
  end
  if bucket.debt > 0 or bucket.hidden > 0 or bucket.tx then
    local value = string.format('%d %d %s%s%s', bucket.now, debt, bucket.rule, more, held)
    redis.call('SET', bucket.key, value, 'PX', string.format('%d', ms + spare))
  elseif bucket.found then
    redis.call('DEL', bucket.key)
  end
end

-- Tells all servers that a bucket has more tokens than time gave it. Not being allowed to is not
-- worth failing for: they find out when they ask.
local function publish(bucket)
  redis.pcall('PUBLISH', 'ratekeeper:changed', bucket.key)
end

