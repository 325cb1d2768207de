local fence, state, has, outcome = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local op = redis.call('HMGET', OP, 'fence', 'state', 'outcome')
if op[1] ~= fence then return {'fenced'} end
if op[2] == 'succeeded' or op[2] == 'failed' then
  -- Whether it is the same outcome the caller finds out: it may be sealed.
  if op[2] == state and not redis.call('HGET', OP, 'by') then return {'recorded', op[3]} end
  return {'fenced'}
end
if state == 'unknown' then
  redis.call('HSET', OP, 'state', 'unknown')
  redis.call('ZREM', P .. 'executing', id)
  redis.call('ZADD', P .. 'unknown', I(now), id)
else
  finish(state, has, outcome)
end
return {'finished'}
