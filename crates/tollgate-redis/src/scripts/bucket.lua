-- Reading and writing a bucket, whatever was done to it before.
--
-- A value is 'at debt step/rate burst', and for each reservation of a transaction that spans slots
-- ' txid ticks taken': so many of the ticks of the debt were taken at that moment, and go back if
-- nobody says within LIFETIME microseconds that the transaction was allowed.

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

-- `ticks` of a rule of `step` per token in those of a rule of `new_step`: whole ticks, and whether
-- there is more.
local function convert(ticks, step, new_step)
  local part = math.fmod(ticks, step)
  local tokens = (ticks - part) / step
  local whole, more = share(part, new_step, step)
  return tokens, tokens * new_step + whole, more
end

local function after(debt, rate, length)
  if length <= 0 then return debt end
  debt = debt - length * rate
  if debt < 0 then return 0 end
  return debt
end

-- The reservations in `text`.
local function reservations(text)
  local list = {}
  for tx, ticks, taken in string.gmatch(text, ' (%x+) (%d+) (%d+)') do
    list[#list + 1] = { tx = tx, ticks = ticks + 0, taken = taken + 0 }
  end
  return list
end

-- Gives a reservation back: at most what of it would still be owed if nothing else had happened.
local function give_back(bucket, reservation)
  local ticks = after(reservation.ticks, bucket.rate, bucket.now - reservation.taken)
  bucket.debt = bucket.debt - ticks
  if bucket.debt < 0 then bucket.debt = 0 end
end

-- The bucket as of `now`, under the rule that is asked by. What was written under another is
-- carried over as of `since`: tokens that are owed stay owed, and come back at the new rate.
local function read(key, rule, rate, depth, since, now)
  local bucket = { key = key, rule = rule, rate = rate, now = now, debt = 0, held = {} }
  local value = redis.call('GET', key)
  if not value then return bucket end
  local at, debt, under, step, old_rate, burst, rest =
    string.match(value, '^(%d+) (%d+) ((%d+)/(%d+) (%d+))(.*)$')
  if not at then
    error({ err = 'NOTABUCKET the value of ' .. key .. ' is not a bucket of Tollgate' })
  end
  at, debt, step, old_rate = at + 0, debt + 0, step + 0, old_rate + 0
  bucket.found, bucket.held = true, reservations(rest)
  if at > now then
    -- The clock stepped back. No time passed that anyone knows of; count from here.
    at, bucket.dirty = now, true
    for _, held in ipairs(bucket.held) do
      if held.taken > now then held.taken = now end
    end
  end
  if under ~= rule then
    bucket.dirty = true
    if since < at then since = at elseif since > now then since = now end
    debt = after(debt, old_rate, since - at)
    at = since
    local new_step, new_burst = string.match(rule, '^(%d+)/%d+ (%d+)$')
    local tokens, ticks, more = convert(debt, step, new_step + 0)
    if tokens >= new_burst + 0 then
      debt = depth
    elseif more then
      debt = ticks + 1
    else
      debt = ticks
    end
    for _, held in ipairs(bucket.held) do
      local _, fewer = convert(held.ticks, step, new_step + 0)
      held.ticks = fewer
    end
  end
  bucket.debt = after(debt, rate, now - at)
  for i = #bucket.held, 1, -1 do
    if now - bucket.held[i].taken >= LIFETIME then
      give_back(bucket, table.remove(bucket.held, i))
      bucket.dirty, bucket.gained = true, true
    end
  end
  return bucket
end

-- Writes what is owed, for at least as long as it is; a bucket that is full is not kept.
local function write(bucket, spare)
  local ms, held = bucket.debt / bucket.rate / 1000, ''
  for _, r in ipairs(bucket.held) do
    held = held .. string.format(' %s %d %d', r.tx, r.ticks, r.taken)
    ms = math.max(ms, LIFETIME / 1000)
  end
  if bucket.debt > 0 or held ~= '' then
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

