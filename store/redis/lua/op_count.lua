return {'counts', redis.call('ZCOUNT', P .. 'executing', '(' .. I(now), '+inf'), redis.call('ZCARD', P .. 'succeeded'),
  redis.call('ZCARD', P .. 'failed'), redis.call('ZCARD', P .. 'unknown') + redis.call('ZCOUNT', P .. 'executing', '-inf', I(now))}
