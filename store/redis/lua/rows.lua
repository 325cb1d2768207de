-- Some rows of one table, in the order of their score, then their bytes, behind (after, afterID): by their rank alone rows
-- would be left out whenever others before them are swept between two pages. Content is cut to its head (form, key id, and
-- enough to be one) if that is all that is wanted.
local tab, after, afterID, count, head = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6] == '1'
local index = P .. ({spent = 'due', claim = 'claims', handle = 'handles', operation = 'ops'})[tab]
local function cut(v)
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
local out = {'rows', I(now)}
for i = 1, #rows, 2 do
  local id, score = rows[i], rows[i + 1]
  local row = {id, score}
  if tab == 'spent' then
    row[3] = redis.call('HGET', P .. 'spent', id)
  elseif tab == 'operation' then
    local op = redis.call('HMGET', P .. 'op:' .. id, 'flow', 'round', 'method', 'target', 'principal', 'answers', 'expires', 'state', 'fence',
      'started', 'finished', 'lease', 'kept', 'outcome', 'by', 'note')
    op[14] = cut(op[14])
    local results = redis.call('HGETALL', P .. 'result:' .. id)
    for j = 2, #results, 2 do results[j] = cut(results[j]) end
    local sets = ''
    for _, set in ipairs({'executing', 'succeeded', 'failed', 'unknown'}) do
      if redis.call('ZSCORE', P .. set, id) then sets = sets .. set .. ' ' end
    end
    row[3], row[4], row[5], row[6] = op, redis.call('HGETALL', P .. 'step:' .. id), results, sets
  else
    local r = redis.call('HMGET', P .. tab .. ':' .. id, 'expires', 'payload', 'by')
    row[3], row[4], row[5] = r[1], cut(r[2]), r[3]
  end
  out[#out + 1] = row
end
return out
