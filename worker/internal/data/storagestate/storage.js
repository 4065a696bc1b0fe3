// Reads and writes the localStorage and IndexedDB databases of a document's origin. Values that JSON cannot express use the
// encoding of Playwright's storageState, so that files can be exchanged with Playwright.
(() => {
  const typedArrays = {
    i8: Int8Array, ui8: Uint8Array, ui8c: Uint8ClampedArray, i16: Int16Array, ui16: Uint16Array, i32: Int32Array,
    ui32: Uint32Array, f32: Float32Array, f64: Float64Array, bi64: BigInt64Array, bui64: BigUint64Array,
  };
  const specialNumbers = {NaN, Infinity, '-Infinity': -Infinity, '-0': -0};

  class Unsupported extends Error {}

  const tagOf = value => Object.prototype.toString.call(value).slice(8, -1);

  function toBase64(array) {
    const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
    let binary = '';
    for (let at = 0; at < bytes.length; at += 0x8000) binary += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
    return btoa(binary);
  }

  function fromBase64(text, TypedArray) {
    return new TypedArray(Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer);
  }

  // isPlain reports whether JSON expresses a value without loss.
  function isPlain(value, ancestors = []) {
    if (value === null || typeof value === 'string' || typeof value === 'boolean') return true;
    if (typeof value === 'number') return Number.isFinite(value) && !Object.is(value, -0);
    if (typeof value !== 'object' || ancestors.includes(value)) return false;
    const below = [...ancestors, value];
    if (Array.isArray(value)) return Object.keys(value).length === value.length && value.every(item => isPlain(item, below));
    return tagOf(value) === 'Object' && Object.keys(value).every(key => key !== '__proto__' && isPlain(value[key], below));
  }

  function encodeNumber(value) {
    if (Object.is(value, -0)) return {v: '-0'};
    return Number.isFinite(value) ? value : {v: String(value)};
  }

  function encode(value, ids = new Map()) {
    switch (typeof value) {
      case 'undefined': return {v: 'undefined'};
      case 'boolean': case 'string': return value;
      case 'number': return encodeNumber(value);
      case 'bigint': return {bi: String(value)};
    }
    if (value === null) return {v: 'null'};
    if (ids.has(value)) return {ref: ids.get(value)};
    const tag = tagOf(value);
    switch (tag) {
      case 'Date': return {d: value.toJSON()};
      case 'RegExp': return {r: {p: value.source, f: value.flags}};
      case 'Error': return {e: {n: value.name, m: value.message, s: value.stack || ''}};
    }
    for (const [k, TypedArray] of Object.entries(typedArrays)) {
      if (value instanceof TypedArray) return {ta: {b: toBase64(value), k}};
    }
    const id = ids.size + 1;
    if (Array.isArray(value)) {
      ids.set(value, id);
      return {a: Array.from(value, item => encode(item, ids)), id};
    }
    if (tag !== 'Object') throw new Unsupported(tag);
    ids.set(value, id);
    return {o: Object.keys(value).map(k => ({k, v: encode(value[k], ids)})), id};
  }

  function decode(value, objects = new Map()) {
    if (typeof value !== 'object' || value === null) return value;
    if ('ref' in value) return objects.get(value.ref);
    if ('v' in value) return value.v === 'null' ? null : specialNumbers[value.v];
    if ('d' in value) return new Date(value.d);
    if ('u' in value) return value.u; // IndexedDB stores no URL objects
    if ('bi' in value) return BigInt(value.bi);
    if ('r' in value) return new RegExp(value.r.p, value.r.f);
    if ('e' in value) return Object.assign(new Error(value.e.m), {name: value.e.n, stack: value.e.s});
    if ('ta' in value) return fromBase64(value.ta.b, typedArrays[value.ta.k]);
    if ('a' in value) {
      const list = [];
      objects.set(value.id, list);
      for (const item of value.a) list.push(decode(item, objects));
      return list;
    }
    const object = {};
    objects.set(value.id, object);
    for (const {k, v} of value.o) {
      Object.defineProperty(object, k, {value: decode(v, objects), writable: true, enumerable: true, configurable: true});
    }
    return object;
  }

  const result = request => new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

  const completed = transaction => new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = transaction.onerror = () => reject(transaction.error);
  });

  // keyPath splits a key path into the two fields of the format.
  const keyPath = path => Array.isArray(path) ? {keyPathArray: [...path]} : path === null ? {} : {keyPath: path};

  class Reader {
    constructor(limit) {
      this.left = limit;
      this.omitted = 0;
    }

    // count counts a value against the limit.
    count(value) {
      this.left -= JSON.stringify(value).length;
      if (this.left < 0) throw new Error('svc: too large');
      return value;
    }

    field(name, value) {
      return isPlain(value) ? {[name]: value} : {[name + 'Encoded']: encode(value)};
    }

    record(store, key, value) {
      try {
        return this.count({...(store.keyPath === null ? this.field('key', key) : {}), ...this.field('value', value)});
      } catch (error) {
        if (!(error instanceof Unsupported)) throw error;
        this.omitted++;
        return null;
      }
    }

    async store(store) {
      const records = [];
      await new Promise((resolve, reject) => {
        const request = store.openCursor();
        request.onerror = () => reject(request.error);
        request.onsuccess = () => {
          const cursor = request.result;
          if (!cursor) return resolve();
          try {
            const record = this.record(store, cursor.primaryKey, cursor.value);
            if (record) records.push(record);
            cursor.continue();
          } catch (error) {
            reject(error);
          }
        };
      });
      const indexes = Array.from(store.indexNames, name => {
        const index = store.index(name);
        return {name, ...keyPath(index.keyPath), multiEntry: index.multiEntry, unique: index.unique};
      });
      return {name: store.name, autoIncrement: store.autoIncrement, ...keyPath(store.keyPath), records, indexes};
    }

    async database({name, version}) {
      const request = indexedDB.open(name);
      request.onupgradeneeded = () => request.transaction.abort(); // the page has deleted the database meanwhile
      const db = await result(request).catch(() => null);
      if (!db) return null;
      db.onversionchange = () => db.close();
      try {
        const stores = [];
        if (db.objectStoreNames.length > 0) {
          const transaction = db.transaction(db.objectStoreNames, 'readonly');
          for (const store of Array.from(db.objectStoreNames, one => transaction.objectStore(one))) stores.push(await this.store(store));
        }
        return {name, version, stores};
      } finally {
        db.close();
      }
    }
  }

  async function read(withDatabases, limit) {
    const reader = new Reader(limit);
    const items = Object.keys(localStorage).map(name => reader.count({name, value: localStorage.getItem(name)}));
    const databases = [];
    for (const info of withDatabases ? await indexedDB.databases() : []) {
      const database = await reader.database(info);
      if (database) databases.push(database);
    }
    return {localStorage: items, indexedDB: databases, omittedRecords: reader.omitted};
  }

  async function writeDatabase({name, version, stores}) {
    await result(indexedDB.deleteDatabase(name));
    const request = indexedDB.open(name, version);
    request.onupgradeneeded = () => {
      for (const store of stores) {
        const created = request.result.createObjectStore(store.name, {autoIncrement: store.autoIncrement, keyPath: store.keyPathArray ?? store.keyPath ?? null});
        for (const index of store.indexes || []) {
          created.createIndex(index.name, index.keyPathArray ?? index.keyPath, {unique: index.unique, multiEntry: index.multiEntry});
        }
      }
    };
    const db = await result(request);
    try {
      if (stores.length === 0) return;
      const transaction = db.transaction(db.objectStoreNames, 'readwrite');
      const done = completed(transaction);
      done.catch(() => {}); // reported below, also if adding throws
      for (const store of stores) {
        for (const record of store.records || []) {
          const value = 'valueEncoded' in record ? decode(record.valueEncoded) : record.value;
          const key = 'keyEncoded' in record ? decode(record.keyEncoded) : record.key;
          transaction.objectStore(store.name).add(value, ...(key === undefined ? [] : [key]));
        }
      }
      await done;
    } finally {
      db.close();
    }
  }

  async function write(origin) {
    localStorage.clear();
    for (const {name, value} of origin.localStorage || []) localStorage.setItem(name, value);
    for (const database of origin.indexedDB || []) await writeDatabase(database);
  }

  return {read, write};
})()
