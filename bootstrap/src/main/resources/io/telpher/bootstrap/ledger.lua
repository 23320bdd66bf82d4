-- The state of one job inside Redis: what Ledger.java is for the embedded server. Change both.
--
-- KEYS: 1 state (hash: instance, epoch, revision)   2 records (hash: rank -> entry)
--       3 leases (sorted set: rank by end, ms)      4 changes (stream: id is REVISION-0)
--       5 arrivals (hash: rank:barrier -> ticket)   6 one barrier (hash: generation, rank -> ticket)
-- ARGV: 1 operation, 2 an instance for a state that is new, then the operation's own
-- An entry is WORLD:INCARNATION:EPOCH:SEALED; a barrier's ticket is INCARNATION:NUMBER:GENERATION.
-- Numbers of 64 bits travel as text, since Lua would round them.

local state, records, leases, changes, arrivals, barrier = unpack(KEYS)
local op = ARGV[1]
local LOG = 4096
local DAY = 86400000
local HOUR = 3600000

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

redis.call('HSETNX', state, 'instance', ARGV[2])

local function append(...)
    local revision = redis.call('HINCRBY', state, 'revision', 1)
    redis.call('XADD', changes, 'MAXLEN', '~', LOG, string.format('%.0f-0', revision), ...)
end

local function parse(entry)
    return string.match(entry, '^(%d+):(%x+):(%d+):')
end

local function remove(rank, kind)
    local entry = redis.call('HGET', records, rank)
    redis.call('HDEL', records, rank)
    redis.call('ZREM', leases, rank)
    for _, field in ipairs(redis.call('HKEYS', arrivals)) do
        if string.match(field, '^(%d+):') == rank then
            redis.call('HDEL', arrivals, field)
        end
    end
    append('kind', kind, 'rank', rank, 'entry', entry)
end

for _, rank in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now)) do
    remove(rank, 'LOST')
end

local function owns(rank, incarnation)
    local entry = redis.call('HGET', records, rank)
    if not entry then return false end
    local world, holder = parse(entry)
    return holder == incarnation and tonumber(world)
end

local function generation()
    return tonumber(redis.call('HGET', barrier, 'generation') or 0)
end

local function passed(rank, incarnation, ticket)
    local last = redis.call('HGET', barrier, rank)
    if not last then return false end
    local who, number, counted = string.match(last, '^(%x+):(%x+):(%d+)$')
    return who == incarnation and number == ticket and tonumber(counted) < generation()
end

local function arrived(name)
    local ranks = {}
    for _, field in ipairs(redis.call('HKEYS', arrivals)) do
        local rank, of = string.match(field, '^(%d+):(.*)$')
        if of == name then ranks[#ranks + 1] = rank end
    end
    return ranks
end

local operations = {}

function operations.announce(rank, world, incarnation, last_epoch, lease, sealed)
    if owns(rank, incarnation) then
        redis.call('ZADD', leases, now + lease, rank)
        local _, _, epoch = parse(redis.call('HGET', records, rank))
        return {'ok', epoch}
    end
    local any = redis.call('ZRANGE', leases, 0, 0)[1]
    if any then
        local other = parse(redis.call('HGET', records, any))
        if other ~= world then
            local longest = redis.call('ZRANGE', leases, -1, -1, 'WITHSCORES')
            return {'world', other, string.format('%.0f', longest[2] - now)}
        end
    end
    local held = redis.call('HGET', records, rank)
    if held then
        local _, holder, epoch = parse(held)
        local left = redis.call('ZSCORE', leases, rank) - now
        return {'held', holder, epoch, string.format('%.0f', left)}
    end
    local epoch = tonumber(redis.call('HGET', state, 'epoch') or 0)
    epoch = string.format('%.0f', math.max(epoch, tonumber(last_epoch)) + 1)
    redis.call('HSET', state, 'epoch', epoch)
    local entry = world .. ':' .. incarnation .. ':' .. epoch .. ':' .. sealed
    redis.call('HSET', records, rank, entry)
    redis.call('ZADD', leases, now + lease, rank)
    append('kind', 'JOINED', 'rank', rank, 'entry', entry)
    return {'ok', epoch}
end

function operations.leave(rank, incarnation)
    if owns(rank, incarnation) then remove(rank, 'LEFT') end
    return {'removed'}
end

function operations.arrive(name, rank, incarnation, ticket)
    if passed(rank, incarnation, ticket) then return {'passed'} end
    local world = owns(rank, incarnation)
    if not world then return {'gone'} end
    local before = string.format('%.0f', generation())
    redis.call('HSET', barrier, rank, incarnation .. ':' .. ticket .. ':' .. before)
    redis.call('PEXPIRE', barrier, DAY)
    redis.call('HSET', arrivals, rank .. ':' .. name, ticket)
    local ranks = arrived(name)
    if #ranks < world then return {'waiting', before} end
    for _, one in ipairs(ranks) do
        redis.call('HDEL', arrivals, one .. ':' .. name)
    end
    local after = redis.call('HINCRBY', barrier, 'generation', 1)
    append('kind', 'PASSED', 'barrier', name, 'generation', string.format('%.0f', after))
    return {'passed'}
end

function operations.withdraw(name, rank, incarnation, ticket)
    if passed(rank, incarnation, ticket) then return {'passed'} end
    local here = {}
    for _, one in ipairs(arrived(name)) do here[one] = true end
    local answer = {'withdrawn'}
    for one = 0, (owns(rank, incarnation) or 0) - 1 do
        local text = string.format('%d', one)
        if not here[text] then answer[#answer + 1] = text end
    end
    local field = rank .. ':' .. name
    if redis.call('HGET', arrivals, field) == ticket then redis.call('HDEL', arrivals, field) end
    return answer
end

local function snapshot(instance, revision)
    local answer = {'snapshot', instance, string.format('%.0f', revision)}
    local all = redis.call('HGETALL', records)
    for i = 1, #all do answer[#answer + 1] = all[i] end
    return answer
end

function operations.changes(instance, after)
    local mine = redis.call('HGET', state, 'instance')
    local revision = tonumber(redis.call('HGET', state, 'revision') or 0)
    after = tonumber(after)
    if instance ~= mine or after < 0 or after > revision then return snapshot(mine, revision) end
    local answer = {'events'}
    if after == revision then return answer end
    for _, change in ipairs(redis.call('XRANGE', changes, string.format('%.0f-0', after + 1), '+')) do
        after = after + 1
        local id = string.format('%.0f', after)
        if change[1] ~= id .. '-0' then return snapshot(mine, revision) end
        answer[#answer + 1] = id
        for i = 2, 6, 2 do answer[#answer + 1] = change[2][i] end
    end
    if after ~= revision then return snapshot(mine, revision) end
    return answer
end

local result = operations[op](unpack(ARGV, 3))
for i = 1, 5 do redis.call('PEXPIRE', KEYS[i], HOUR) end
return result
