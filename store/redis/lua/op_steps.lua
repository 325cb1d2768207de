-- The steps of an operation that has many, or long results, a bounded part at a time.
local id, what = ARGV[2], ARGV[3]
local OP, STEP, RESULT = P .. 'op:' .. id, P .. 'step:' .. id, P .. 'result:' .. id
local out = {'steps'}
if what == 'scan' then
  -- As rows tells of each, but without its result.
  local page = redis.call('HSCAN', STEP, ARGV[4], 'COUNT', 256)
  out[2], out[3], out[4] = page[1], redis.call('HGET', OP, 'fence'), redis.call('HLEN', RESULT)
  for i = 1, #page[2], 2 do
    local name = page[2][i]
    out[#out + 1] = {name, page[2][i + 1], redis.call('HEXISTS', RESULT, name) == 1 and redis.call('HSTRLEN', RESULT, name), false}
  end
elseif what == 'results' then
  -- Of the named steps, cut if their heads are enough.
  for i = 5, #ARGV do
    local v = redis.call('HGET', RESULT, ARGV[i])
    if v and ARGV[4] == '1' then v = string.sub(v, 1, 33) end
    out[#out + 1] = v
  end
else
  -- How many results belong to no step.
  local n = 0
  for _, name in ipairs(redis.call('HKEYS', RESULT)) do
    if redis.call('HEXISTS', STEP, name) == 0 then n = n + 1 end
  end
  out[2] = n
end
return out
