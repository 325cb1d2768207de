local a = {unpack(ARGV, 3)}
local flow, round, method, target, principal, answers = a[1], a[2], a[3], a[4], a[5], a[6]
local expires, lease, keep, retention = tonumber(a[7]), tonumber(a[8]), a[9], a[10]
local attempt, minted, most, skew, limit = a[11], tonumber(a[12]), tonumber(a[13]), tonumber(a[14]), tonumber(a[15])
if limit > 0 then sweepOps(now - skew, limit) end
local there = redis.call('HMGET', OP, 'attempt', 'fence', 'state')
if there[1] then
  -- The same presentation asks again, as it lost the answer.
  if there[1] == attempt and there[2] == '1' and there[3] == 'executing' then return brief('started') end
  return brief('there')
end
if expires <= opmark then return {'swept'} end
if minted < restored then return {'restored'} end
while redis.call('ZCARD', P .. 'ops') >= most do
  if sweepOps(now - skew, 256) == 0 then return {'full'} end
  if expires <= opmark then return {'swept'} end
end
redis.call('HSET', OP, 'flow', flow, 'round', round, 'method', method, 'target', target, 'principal', principal, 'answers', answers,
  'expires', I(expires), 'state', 'executing', 'fence', '1', 'started', I(now), 'keep', keep, 'retention', retention, 'attempt', attempt)
redis.call('ZADD', P .. 'ops', I(now), id)
extend(lease)
return brief('started')
