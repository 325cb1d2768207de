// The memory of spent tokens. It is bounded, refuses when it is full, and forgets
// nothing before its time.

/** SKEW is how far two clocks may differ, in seconds. */
export const SKEW = 60;

export class UsedSet {
	/** @param {number} [most] how many it holds */
	constructor(most = 1024) {
		this.most = most;
		/** @type {Map<string, number>} identity to the moment when it may be forgotten */
		this.until = new Map();
	}

	get size() {
		return this.until.size;
	}

	/**
	 * use marks an identity as spent and tells whether this call was the first. An
	 * identity that may have been forgotten is "swept", which is no yes.
	 * @param {string} id
	 * @param {number} expires
	 * @param {number} now
	 * @returns {"first" | "spent" | "swept" | "full"}
	 */
	use(id, expires, now) {
		const mark = now - SKEW;
		for (const [old, until] of this.until) if (until <= now) this.until.delete(old);
		if (!(expires > mark)) return "swept";
		if (this.until.has(id)) return "spent";
		if (this.until.size >= this.most) return "full";
		this.until.set(id, expires + SKEW);
		return "first";
	}
}
