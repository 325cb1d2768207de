-- A write, so that WAIT, which counts from the last write of its connection, counts
-- everything up to here.
redis.call('HINCRBY', META, 'waits', 1)
return {'touched'}
