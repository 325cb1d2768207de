-- What the tables come to, counted anew in one step: name, what is recorded, what is there.
local out = {'totals', {'spent', redis.call('HLEN', P .. 'spent'), redis.call('ZCARD', P .. 'due')},
  {'operation', redis.call('ZCARD', P .. 'ops'), redis.call('ZCARD', P .. 'executing') + redis.call('ZCARD', P .. 'succeeded')
    + redis.call('ZCARD', P .. 'failed') + redis.call('ZCARD', P .. 'unknown')}}
for _, tab in ipairs({'claim', 'handle'}) do
  local bytes = 0
  for _, row in ipairs(redis.call('ZRANGE', P .. tab .. 's', 0, -1)) do
    bytes = bytes + redis.call('HSTRLEN', P .. tab .. ':' .. row, 'payload')
  end
  out[#out + 1] = {tab, tonumber(redis.call('HGET', META, tab .. '_bytes')), bytes}
end
return out
