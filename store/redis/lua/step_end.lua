local fence, name, lease, most, has, result = ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7], ARGV[8]
if not runs(fence) then return {'fenced'} end
local order, began = I(redis.call('HLEN', STEP)), I(now)
local step = redis.call('HGET', STEP, name)
if step then
  local ended
  local _
  order, _, began, ended = string.match(step, '^(%d+) (%d+) (%d+) (%d+)$')
  if ended ~= '0' then return {'fenced'} end
elseif tonumber(order) >= most then
  return {'steps'}
end
redis.call('HSET', STEP, name, order .. ' ' .. fence .. ' ' .. began .. ' ' .. I(now))
if has == '1' then redis.call('HSET', RESULT, name, result) end
extend(lease)
return {'ended'}
