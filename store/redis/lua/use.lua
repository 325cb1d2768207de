local id, expires, attempt, skew, minted, limit = ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local horizon = now - skew
if limit > 0 then sweepSpent(horizon, limit, false) end
-- The clock too, not the mark alone: what could be forgotten at once is not begun.
if expires <= mark or expires <= horizon then return {'swept'} end
local holder = redis.call('HGET', P .. 'spent', id)
if holder then
  -- The same presentation asks again, as it lost the answer.
  if holder == attempt then return {'first'} end
  return {'spent'}
end
-- Each ID is in both. If somebody took one of them away, nobody knows what else went.
if redis.call('HLEN', P .. 'spent') ~= redis.call('ZCARD', P .. 'due') then return {'damaged'} end
if minted >= 0 and minted < restored then return {'restored'} end
redis.call('HSET', P .. 'spent', id, attempt)
redis.call('ZADD', P .. 'due', I(expires), id)
return {'first'}
