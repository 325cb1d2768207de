if redis.call('EXISTS', OP) == 0 then return {'none'} end
return view('there')
