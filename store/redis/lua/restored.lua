-- One step, however long it takes: in between a claim of before could be redeemed.
local skew, raise = tonumber(ARGV[2]), tonumber(ARGV[3])
restored = math.max(restored, up + skew)
redis.call('HSET', META, 'restored', I(restored))
for _, tab in ipairs({'claim', 'handle'}) do
  repeat
    local rows = redis.call('ZRANGE', P .. tab .. 's', 0, 999)
    drop(tab, rows)
  until #rows == 0
end
-- What was unknown may have been taken over since the backup, too.
for _, set in ipairs({'unknown', 'executing'}) do
  for _, id in ipairs(redis.call('ZRANGE', P .. set, 0, -1)) do
    local key = P .. 'op:' .. id
    local fence = tonumber(redis.call('HGET', key, 'fence'))
    redis.call('HSET', key, 'state', 'unknown', 'fence', I(fence + raise))
    redis.call('ZREM', P .. 'executing', id)
    redis.call('ZADD', P .. 'unknown', I(now), id)
  end
end
return {'restored', I(restored)}
