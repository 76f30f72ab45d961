-- The transaction over `keys`: for each the ticks that it owed before; as text, with the tokens that were
-- owed besides, if there were any.
local function decide(keys, argv)
  local buckets, owed, denied = {}, {}, false
  for i, key in ipairs(keys) do
    local a = i * 6 - 4
    local what, price, depth = argv[a], argv[a + 4] + 0, argv[a + 3] + 0
    local bucket = read(key, argv[a + 1], argv[a + 2] + 0, argv[a + 5] + 0, now)
    bucket.what, bucket.price = what, price
    bucket.fits = price <= depth - bucket.debt
    denied = denied or what == '6' or not bucket.fits and (what == '1' or what == '2')
    buckets[i] = bucket
    owed[i] = bucket.held > 0 and -1 - bucket.debt or bucket.debt
    if bucket.hidden > 0 then owed[i] = format('%d %d', owed[i], bucket.hidden) end
  end
  for _, bucket in ipairs(buckets) do
    local what, debt, hidden = bucket.what, bucket.debt, bucket.hidden
    if denied then
      -- Nothing is asked of it any more.
    elseif (what == '1' or what == '3') and bucket.fits then
      bucket.debt = debt + bucket.price
    elseif what == '4' then
      lower(bucket, bucket.price)
    elseif what == '5' then
      bucket.debt, bucket.held, bucket.tx, bucket.dirty = 0, 0, nil, bucket.found
      bucket.hidden = 0
    end
    if bucket.dirty or bucket.debt ~= debt or bucket.hidden ~= hidden then
      write(bucket, spare)
      if bucket.gained or bucket.debt < debt then publish(bucket) end
    end
  end
  return owed
end

if is_short then
  local rule, depth, since, rate = argv[count + 1], argv[count + 2], argv[count + 3], argv[count + 4]
  for _, i in ipairs(later) do
    local ask = { '', '1', rule, rate or 1, depth, argv[i], since }
    local is_done, owed = pcall(decide, { KEYS[i] }, ask)
    answer[i + 1] = is_done and owed[1] or owed
  end
else
  for i, owed in ipairs(decide(KEYS, argv)) do answer[i + 1] = owed end
end
return answer
