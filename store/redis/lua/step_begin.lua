-- A step is "order fence began ended"; its result is kept apart.
local fence, name, lease, most = ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
if not runs(fence) then return {'fenced'} end
local step = redis.call('HGET', STEP, name)
if not step then
  local n = redis.call('HLEN', STEP)
  if n >= most then return {'steps'} end
  step = I(n) .. ' ' .. fence .. ' ' .. I(now) .. ' 0'
  redis.call('HSET', STEP, name, step)
else
  local order, _, began, ended = string.match(step, '^(%d+) (%d+) (%d+) (%d+)$')
  if ended == '0' then
    step = order .. ' ' .. fence .. ' ' .. began .. ' 0'
    redis.call('HSET', STEP, name, step)
  end
end
extend(lease)
return {'step', step, redis.call('HGET', RESULT, name)}
