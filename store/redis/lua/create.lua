-- Runs before the row that the other scripts read is there.
local META = KEYS[1]
local P = string.sub(META, 1, -5)
local kind = redis.call('TYPE', META)['ok']
if kind == 'none' then
  if ARGV[2] ~= '1' then return {'missing'} end
  redis.call('HSET', META, 'schema', '1', 'id', ARGV[1], 'mark', '0', 'opmark', '-1', 'restored', '0',
    'claim_bytes', '0', 'handle_bytes', '0', 'pings', '0', 'waits', '0')
elseif kind ~= 'hash' then
  return {'foreign'}
end
local m = redis.call('HMGET', META, 'schema', 'id')
if not m[1] or not m[2] then return {'foreign'} end
return {'schema', m[1], m[2]}
