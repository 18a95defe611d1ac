// Time that passes for what was signed.

/** Lets so many seconds pass for what a store has signed. */
export function aged(store, seconds) {
  return store.update(({ purchases }) => {
    for (const { authorizations } of Object.values(purchases)) {
      for (const a of authorizations)
        Object.assign(a, { signedAt: a.signedAt - seconds, validBefore: a.validBefore - seconds });
    }
  });
}
