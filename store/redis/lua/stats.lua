local live = '(' .. I(now)
local m = redis.call('HMGET', META, 'claim_bytes', 'mark', 'restored')
return {'stats', redis.call('ZCOUNT', P .. 'due', '(' .. m[2], '+inf'),
  redis.call('ZCOUNT', P .. 'claims', live, '+inf'), redis.call('ZCOUNT', P .. 'handles', live, '+inf'),
  redis.call('ZCOUNT', P .. 'executing', live, '+inf'), redis.call('ZCARD', P .. 'succeeded'), redis.call('ZCARD', P .. 'failed'),
  redis.call('ZCARD', P .. 'unknown') + redis.call('ZCOUNT', P .. 'executing', '-inf', I(now)), m[1], m[2], m[3]}
