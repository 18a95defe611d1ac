// The receiver of what is sealed: RFC 9180 in base mode, by @hpke/core over the platform's own cryptography.
import { Aes256Gcm, CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from "@hpke/core";

/** The suite as the service names it. */
export const suiteName = "DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM";

/** A key pair made for one message. */
export class Recipient {
  readonly #suite: CipherSuite;
  readonly #keys: CryptoKeyPair;

  private constructor(
    suite: CipherSuite,
    keys: CryptoKeyPair,
    readonly publicKey: Uint8Array,
  ) {
    this.#suite = suite;
    this.#keys = keys;
  }

  /** Makes a key pair; its `publicKey` has 32 bytes. The private key never leaves the platform's cryptography. */
  static async create(known?: CryptoKeyPair): Promise<Recipient> {
    const suite = new CipherSuite({ kem: new DhkemX25519HkdfSha256(), kdf: new HkdfSha256(), aead: new Aes256Gcm() });
    const keys = known ?? (await suite.kem.generateKeyPair());
    return new Recipient(suite, keys, new Uint8Array(await suite.kem.serializePublicKey(keys.publicKey)));
  }

  /** Opens what was sealed to this key; rejects unless key, info and associated data are right. */
  async open(enc: Uint8Array, ciphertext: Uint8Array, info: Uint8Array, aad: Uint8Array): Promise<Uint8Array> {
    return new Uint8Array(await this.#suite.open({ recipientKey: this.#keys, enc, info }, ciphertext, aad));
  }
}
