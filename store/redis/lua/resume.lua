if not lost(ARGV[3]) then return {'fenced'} end
redis.call('HSET', OP, 'fence', I(tonumber(ARGV[3]) + 1), 'state', 'executing')
redis.call('ZREM', P .. 'unknown', id)
extend(tonumber(ARGV[4]))
return view('there')
