local buckets, denied = {}, false
local answer = { now }
for i, key in ipairs(KEYS) do
  local a = i * 6 - 4
  local what, price, depth = argv[a], argv[a + 4] + 0, argv[a + 3] + 0
  local bucket = read(key, argv[a + 1], argv[a + 2] + 0, depth, argv[a + 5] + 0, now)
  bucket.what, bucket.price = what, price
  bucket.fits = price <= depth - bucket.debt
  denied = denied or what == '6' or not bucket.fits and (what == '1' or what == '2')
  buckets[i] = bucket
  answer[i + 1] = bucket.debt
end

for _, bucket in ipairs(buckets) do
  local what, debt = bucket.what, bucket.debt
  if denied then
    -- Nothing is asked of it any more.
  elseif (what == '1' or what == '3') and bucket.fits then
    bucket.debt = debt + bucket.price
  elseif what == '4' then
    bucket.debt = math.max(0, debt - bucket.price)
  elseif what == '5' then
    bucket.debt, bucket.held, bucket.dirty = 0, {}, bucket.found
  end
  if bucket.dirty or bucket.debt ~= debt then
    write(bucket, spare)
    if bucket.gained or bucket.debt < debt then publish(bucket) end
  end
end
return answer
