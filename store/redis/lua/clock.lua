-- us is the server's time in Unix microseconds, rounded down as TIME has it, and
-- usUp a moment that is not before it.
local t = redis.call('TIME')
local us = tonumber(t[1]) * 1000000 + tonumber(t[2])
local usUp = us + 1
