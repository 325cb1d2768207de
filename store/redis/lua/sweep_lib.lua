-- Each forgets at most limit rows, and first raises the mark that keeps what is
-- forgotten from coming back.
local mark, opmark = tonumber(meta[3]), tonumber(meta[4])

local function sweepSpent(horizon, limit, always)
  local due = redis.call('ZRANGEBYSCORE', P .. 'due', '-inf', I(horizon), 'LIMIT', 0, limit)
  if horizon > mark and (always or #due > 0) then
    mark = horizon
    redis.call('HSET', META, 'mark', I(mark))
  end
  if #due > 0 then
    redis.call('HDEL', P .. 'spent', unpack(due))
    redis.call('ZREM', P .. 'due', unpack(due))
  end
  return #due
end

-- drop deletes rows of the table that is 'claim' or 'handle'.
local function drop(tab, rows)
  local bytes = 0
  for i, row in ipairs(rows) do
    bytes = bytes + redis.call('HSTRLEN', P .. tab .. ':' .. row, 'payload')
    redis.call('UNLINK', P .. tab .. ':' .. row)
  end
  if #rows > 0 then
    redis.call('ZREM', P .. tab .. 's', unpack(rows))
    redis.call('HINCRBY', META, tab .. '_bytes', I(-bytes))
  end
  return #rows
end

local function sweepRows(tab, limit)
  return drop(tab, redis.call('ZRANGEBYSCORE', P .. tab .. 's', '-inf', I(now), 'LIMIT', 0, limit))
end

-- What is executing or unknown is in neither set, and is never forgotten.
local function sweepOps(horizon, limit)
  local n = 0
  for _, set in ipairs({'succeeded', 'failed'}) do
    local due = redis.call('ZRANGEBYSCORE', P .. set, '-inf', I(horizon), 'LIMIT', 0, limit - n)
    local top = opmark
    for _, id in ipairs(due) do
      local expires = tonumber(redis.call('HGET', P .. 'op:' .. id, 'expires'))
      if expires and expires > top then top = expires end
    end
    if top > opmark then
      opmark = top
      redis.call('HSET', META, 'opmark', I(opmark))
    end
    for _, id in ipairs(due) do
      redis.call('UNLINK', P .. 'op:' .. id, P .. 'step:' .. id, P .. 'result:' .. id)
      redis.call('ZREM', P .. set, id)
      redis.call('ZREM', P .. 'ops', id)
    end
    n = n + #due
  end
  return n
end
