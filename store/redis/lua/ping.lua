-- As much as a row of ours writes. rows and bytes are zero where nothing is bounded.
local tab, rows, bytes = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
redis.call('HINCRBY', META, 'pings', 1)
if tab == 'claim' or tab == 'handle' then
  while redis.call('ZCARD', P .. tab .. 's') >= rows or tonumber(redis.call('HGET', META, tab .. '_bytes')) + 1 > bytes do
    if sweepRows(tab, 256) == 0 then return {'full'} end
  end
elseif tab == 'op' then
  while redis.call('ZCARD', P .. 'ops') >= rows do
    if sweepOps(now - bytes, 256) == 0 then return {'full'} end
  end
end
return {'pong'}
