if redis.call('EXISTS', P .. 'claim:' .. ARGV[2]) == 1 then drop('claim', {ARGV[2]}) end
return {'revoked'}
