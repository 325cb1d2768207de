-- In milliseconds: now is rounded down, up is rounded up.
local now, up = math.floor(us / 1000), math.ceil(usUp / 1000)

-- One row says what this database is. It is read in the same step as everything
-- else, so a database that was emptied, replaced or migrated is noticed by every call.
local META = KEYS[1]
local P = string.sub(META, 1, -5)
local meta = redis.call('HMGET', META, 'schema', 'id', 'mark', 'opmark', 'restored')
if meta[1] ~= '1' or meta[2] ~= ARGV[1] then return {'gone'} end
local restored = tonumber(meta[5])

-- Lua would write a large number with an exponent.
local function I(n) return string.format('%.0f', n) end
