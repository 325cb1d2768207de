local fence, state, has, outcome, by, note = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
if not lost(fence) then return {'fenced'} end
redis.call('HSET', OP, 'fence', I(tonumber(fence) + 1), 'by', by, 'note', note)
finish(state, has, outcome)
return {'resolved'}
