-- Rows in the order of their start, then ID, behind (after, afterID). At most budget
-- rows are looked at, so that nobody waits for a long list.
local after, afterID, since, till, state, flow, most, budget = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8]), tonumber(ARGV[9])
local from = 0
if since ~= '' then from = redis.call('ZCOUNT', P .. 'ops', '-inf', '(' .. since) end
if after ~= '' then
  local rank = redis.call('ZCOUNT', P .. 'ops', '-inf', '(' .. after)
  if redis.call('ZSCORE', P .. 'ops', afterID) == after then
    rank = redis.call('ZRANK', P .. 'ops', afterID) + 1
  else
    -- It was forgotten since: behind it is what has its start and a greater ID.
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', P .. 'ops', after, after)) do
      if id <= afterID then rank = rank + 1 end
    end
  end
  if rank > from then from = rank end
end
local rows = redis.call('ZRANGE', P .. 'ops', from, from + budget - 1, 'WITHSCORES')
local page, last, lastID = {}, after, afterID
for i = 1, #rows, 2 do
  local id, started = rows[i], rows[i + 1]
  if till ~= '' and tonumber(started) >= tonumber(till) then return {'end', I(now), page} end
  local op = redis.call('HMGET', P .. 'op:' .. id, 'flow', 'round', 'method', 'target', 'principal', 'answers', 'expires', 'state', 'fence',
    'started', 'finished', 'lease', 'kept', 'nothing', 'by', 'note')
  local is = op[8]
  if is == 'executing' and tonumber(op[12]) <= now then is = 'unknown' end
  last, lastID = started, id
  if (state == '' or state == is) and (flow == '' or flow == op[1]) then
    page[#page + 1] = id
    page[#page + 1] = op
    if #page >= 2 * most then return {'more', I(now), page, last, lastID} end
  end
end
if #rows < 2 * budget then return {'end', I(now), page} end
return {'more', I(now), page, last, lastID}
