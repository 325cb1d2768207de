-- Some rows of one table, in the order of their score, then their bytes, behind (after, afterID): by their rank alone rows
-- would be left out whenever others before them are swept between two pages. Content is cut to its head (form, key id, and
-- enough to be one) if that is all that is wanted. A page ends early once it has read budget bytes of content; steps and
-- results of an operation that has many, or long ones, are left to op_steps.
local tab, after, afterID, count, head, budget = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6] == '1', tonumber(ARGV[7])
local index = P .. ({spent = 'due', claim = 'claims', handle = 'handles', operation = 'ops'})[tab]
local function cut(v)
  if v then budget = budget - #v end
  if v and head then return string.sub(v, 1, 33) end
  return v
end
-- Lua compares strings by the server's locale, and Redis orders members by their bytes.
local function upTo(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a <= #b
end
local from = 0
if after ~= '' then
  from = redis.call('ZCOUNT', index, '-inf', '(' .. after)
  local till = redis.call('ZCOUNT', index, '-inf', after)
  while from < till do
    local mid = math.floor((from + till) / 2)
    if upTo(redis.call('ZRANGE', index, mid, mid)[1], afterID) then from = mid + 1 else till = mid end
  end
end
local rows = redis.call('ZRANGE', index, from, from + count - 1, 'WITHSCORES')
-- Of each step its name, what is known of it, the length of its result, or false, and the result.
local function steps(id)
  local STEP, RESULT = P .. 'step:' .. id, P .. 'result:' .. id
  if redis.call('HLEN', STEP) > 64 then return false end
  local known, all, sum = redis.call('HGETALL', STEP), {}, 0
  for i = 1, #known, 2 do
    local n = redis.call('HEXISTS', RESULT, known[i]) == 1 and redis.call('HSTRLEN', RESULT, known[i])
    sum = sum + (n or 0)
    all[#all + 1] = {known[i], known[i + 1], n, false}
  end
  if sum > 65536 then return false end
  for _, step in ipairs(all) do
    if step[3] then step[4] = cut(redis.call('HGET', RESULT, step[1])) end
  end
  return all
end
local out = {'rows', I(now), #rows == 2 * count and 'more' or 'end'}
for i = 1, #rows, 2 do
  local id, score = rows[i], rows[i + 1]
  local row = {id, score}
  if tab == 'spent' then
    row[3] = redis.call('HGET', P .. 'spent', id)
  elseif tab == 'operation' then
    local op = redis.call('HMGET', P .. 'op:' .. id, 'flow', 'round', 'method', 'target', 'principal', 'answers', 'expires', 'state', 'fence',
      'started', 'finished', 'lease', 'kept', 'outcome', 'by', 'note')
    op[14] = cut(op[14])
    local sets, due = '', false
    for _, set in ipairs({'executing', 'succeeded', 'failed', 'unknown'}) do
      local at = redis.call('ZSCORE', P .. set, id)
      if at then sets, due = sets .. set .. ' ', at end
    end
    local promised = redis.call('HMGET', P .. 'op:' .. id, 'retention', 'keep')
    row[3], row[4], row[5], row[6] = op, sets, due, promised
    row[7], row[8] = redis.call('HLEN', P .. 'result:' .. id), steps(id)
  else
    local r = redis.call('HMGET', P .. tab .. ':' .. id, 'expires', 'payload', 'by')
    row[3], row[4], row[5] = r[1], cut(r[2]), r[3]
  end
  out[#out + 1] = row
  if budget <= 0 then
    out[3] = 'more'
    break
  end
end
return out
