local key, by = P .. 'claim:' .. ARGV[2], ARGV[3]
local row = redis.call('HMGET', key, 'expires', 'payload', 'by')
if not row[1] or tonumber(row[1]) <= now then return {'redeemed'} end
if not row[3] then
  redis.call('HSET', key, 'by', by)
elseif row[3] ~= by then
  return {'redeemed'}
end
return {'row', row[2]}
