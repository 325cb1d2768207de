-- Some rows of one table, by their rank. Content is cut to its head (form, key id, and enough to be one) if that is all
-- that is wanted.
local tab, from, count, head = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5] == '1'
local function cut(v)
  if v and head then return string.sub(v, 1, 33) end
  return v
end
local out = {'rows', I(now)}
if tab == 'spent' then
  local rows = redis.call('ZRANGE', P .. 'due', from, from + count - 1, 'WITHSCORES')
  for i = 1, #rows, 2 do
    out[#out + 1] = {rows[i], rows[i + 1], redis.call('HGET', P .. 'spent', rows[i])}
  end
elseif tab == 'claim' or tab == 'handle' then
  local rows = redis.call('ZRANGE', P .. tab .. 's', from, from + count - 1, 'WITHSCORES')
  for i = 1, #rows, 2 do
    local r = redis.call('HMGET', P .. tab .. ':' .. rows[i], 'expires', 'payload', 'by')
    out[#out + 1] = {rows[i], rows[i + 1], r[1], cut(r[2]), r[3]}
  end
else
  for _, id in ipairs(redis.call('ZRANGE', P .. 'ops', from, from + count - 1)) do
    local op = redis.call('HMGET', P .. 'op:' .. id, 'flow', 'round', 'method', 'target', 'principal', 'answers', 'expires', 'state', 'fence',
      'started', 'finished', 'lease', 'kept', 'outcome', 'by', 'note')
    op[14] = cut(op[14])
    local results = redis.call('HGETALL', P .. 'result:' .. id)
    for i = 2, #results, 2 do results[i] = cut(results[i]) end
    local sets = ''
    for _, set in ipairs({'executing', 'succeeded', 'failed', 'unknown'}) do
      if redis.call('ZSCORE', P .. set, id) then sets = sets .. set .. ' ' end
    end
    out[#out + 1] = {id, op, redis.call('HGETALL', P .. 'step:' .. id), results, sets, redis.call('ZSCORE', P .. 'ops', id)}
  end
end
return out
