local skew, limit = tonumber(ARGV[2]), tonumber(ARGV[3])
return {'swept', sweepSpent(now - skew, limit, true), sweepRows('claim', limit), sweepRows('handle', limit), sweepOps(now - skew, limit)}
