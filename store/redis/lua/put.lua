-- expires is a number of microseconds from now, or a moment in milliseconds.
local tab, row, payload, attempt = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local relative, expires, rows, bytes, limit = ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
if limit > 0 then sweepRows(tab, limit) end
local key = P .. tab .. ':' .. row
local there = redis.call('HGET', key, 'attempt')
if there then
  if there == attempt then return {'put'} end
  return {'exists'}
end
while redis.call('ZCARD', P .. tab .. 's') >= rows or tonumber(redis.call('HGET', META, tab .. '_bytes')) + #payload > bytes do
  if sweepRows(tab, 256) == 0 then return {'full'} end
end
if relative == '1' then expires = math.ceil((usUp + expires) / 1000) end
expires = I(expires)
redis.call('HSET', key, 'expires', expires, 'payload', payload, 'attempt', attempt)
redis.call('ZADD', P .. tab .. 's', expires, row)
redis.call('HINCRBY', META, tab .. '_bytes', #payload)
return {'put'}
