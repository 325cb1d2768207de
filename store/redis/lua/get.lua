local row = redis.call('HMGET', P .. ARGV[2] .. ':' .. ARGV[3], 'expires', 'payload')
if not row[1] or tonumber(row[1]) <= now then return {'none'} end
return {'row', row[2]}
