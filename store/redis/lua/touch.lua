-- A write. WAIT promises something of the writes of its own connection alone, and what
-- went before may have read what others wrote. (Redis 7 counts from the last command of
-- the connection, whether or not it wrote; that is not promised.)
redis.call('HINCRBY', META, 'waits', 1)
return {'touched'}
