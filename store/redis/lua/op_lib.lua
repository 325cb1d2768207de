local id = ARGV[2]
local OP, STEP, RESULT = P .. 'op:' .. id, P .. 'step:' .. id, P .. 'result:' .. id

-- brief is the operation without its steps, which may be many.
local function brief(tag)
  return {tag, I(now), redis.call('HMGET', OP, 'flow', 'round', 'method', 'target', 'principal', 'answers', 'expires', 'state', 'fence',
    'started', 'finished', 'lease', 'kept', 'outcome', 'by', 'note')}
end

local function view(tag)
  local v = brief(tag)
  v[4], v[5] = redis.call('HGETALL', STEP), redis.call('HGETALL', RESULT)
  return v
end

local function extend(lease)
  local till = I(up + lease)
  redis.call('HSET', OP, 'lease', till)
  redis.call('ZADD', P .. 'executing', till, id)
end

-- runs says whether whoever has this fence may go on.
local function runs(fence)
  local op = redis.call('HMGET', OP, 'fence', 'state')
  return op[1] == fence and op[2] == 'executing'
end

-- lost says whether the operation is unknown under this fence.
local function lost(fence)
  local op = redis.call('HMGET', OP, 'fence', 'state', 'lease')
  return op[1] == fence and (op[2] == 'unknown' or op[2] == 'executing' and tonumber(op[3]) <= now)
end

local function finish(state, has, outcome)
  local op = redis.call('HMGET', OP, 'retention', 'keep')
  local kept = math.max(up + tonumber(op[1]), tonumber(op[2]))
  redis.call('HSET', OP, 'state', state, 'finished', I(now), 'kept', I(kept))
  if has == '1' then redis.call('HSET', OP, 'outcome', outcome) end
  redis.call('ZREM', P .. 'executing', id)
  redis.call('ZREM', P .. 'unknown', id)
  redis.call('ZADD', P .. state, I(kept), id)
end
