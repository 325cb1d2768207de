if not runs(ARGV[3]) then return {'fenced'} end
extend(tonumber(ARGV[4]))
return {'renewed'}
