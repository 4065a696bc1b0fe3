// A deprecated operation has x-deprecated-at and x-sunset, at least six months
// apart. Other operations have neither.
export default function notice(operation) {
  const since = operation['x-deprecated-at'];
  const until = operation['x-sunset'];
  if (!operation.deprecated) {
    return since || until ? [{ message: 'x-deprecated-at and x-sunset are only for deprecated operations' }] : [];
  }
  const from = day(since);
  const to = day(until);
  if (!from || !to) {
    return [{ message: 'a deprecated operation needs x-deprecated-at and x-sunset with dates such as 2027-01-31' }];
  }
  from.setUTCMonth(from.getUTCMonth() + 6);
  return to < from ? [{ message: `x-sunset must not be before  ${from.toISOString().slice(0, 10)}` }] : [];
}

function day(text) {
  const date = new Date(/^\d{4}-\d\d-\d\d$/.test(text) ? text : NaN);
  return Number.isNaN(date.getTime()) ? null : date;
}
