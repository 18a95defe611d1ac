// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// A smart account with the public interface, the storage and the signatures of Coinbase Smart Wallet, for development
/// chains. It stands behind the same ERC-1967 proxy. What a payer does not need is left out: user operations, upgrades
/// and calls in batches.
contract SmartWallet {
    /// The struct at the ERC-7201 namespace coinbase.storage.MultiOwnable.
    struct Owners {
        uint256 next;
        uint256 removed;
        mapping(uint256 index => bytes) byIndex;
        mapping(bytes owner => bool) known;
    }

    struct SignatureWrapper {
        uint256 ownerIndex;
        bytes signatureData;
    }

    struct WebAuthnAuth {
        bytes authenticatorData;
        string clientDataJSON;
        uint256 challengeIndex;
        uint256 typeIndex;
        uint256 r;
        uint256 s;
    }

    event AddOwner(uint256 indexed index, bytes owner);
    event RemoveOwner(uint256 indexed index, bytes owner);

    error Initialized();
    error Unauthorized();
    error AlreadyOwner(bytes owner);
    error NoOwnerAtIndex(uint256 index);
    error InvalidOwnerBytesLength(bytes owner);

    uint256 private constant HALF_P256 = 0x7fffffff800000007fffffffffffffffde737d56d38bcf4279dce5617e3192a8;
    address private constant P256 = address(0x100);

    modifier onlyOwner() {
        if (msg.sender != address(this) && !owners().known[abi.encode(msg.sender)]) revert Unauthorized();
        _;
    }

    receive() external payable {}

    function initialize(bytes[] calldata first) external payable {
        if (owners().next != 0) revert Initialized();
        for (uint256 i; i < first.length; i++) add(first[i]);
    }

    function addOwnerAddress(address owner) external onlyOwner {
        add(abi.encode(owner));
    }

    function addOwnerPublicKey(bytes32 x, bytes32 y) external onlyOwner {
        add(abi.encode(x, y));
    }

    function removeOwnerAtIndex(uint256 index, bytes calldata owner) external onlyOwner {
        Owners storage all = owners();
        if (keccak256(all.byIndex[index]) != keccak256(owner) || owner.length == 0) revert NoOwnerAtIndex(index);
        delete all.byIndex[index];
        delete all.known[owner];
        all.removed++;
        emit RemoveOwner(index, owner);
    }

    function execute(address target, uint256 value, bytes calldata data) external payable onlyOwner {
        (bool ok, bytes memory answer) = target.call{value: value}(data);
        if (!ok) {
            assembly ("memory-safe") {
                revert(add(answer, 32), mload(answer))
            }
        }
    }

    function ownerAtIndex(uint256 index) external view returns (bytes memory) {
        return owners().byIndex[index];
    }

    function nextOwnerIndex() external view returns (uint256) {
        return owners().next;
    }

    function isOwnerBytes(bytes calldata owner) external view returns (bool) {
        return owners().known[owner];
    }

    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4) {
        bool valid = signed(replaySafeHash(hash), abi.decode(signature, (SignatureWrapper)));
        return valid ? bytes4(0x1626ba7e) : bytes4(0xffffffff);
    }

    function replaySafeHash(bytes32 hash) public view returns (bytes32) {
        bytes32 message = keccak256(abi.encode(keccak256("CoinbaseSmartWalletMessage(bytes32 hash)"), hash));
        return keccak256(abi.encodePacked(hex"1901", domainSeparator(), message));
    }

    function domainSeparator() public view returns (bytes32) {
        return keccak256(
            abi.encode(
                keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
                keccak256("Coinbase Smart Wallet"),
                keccak256("1"),
                block.chainid,
                address(this)
            )
        );
    }

    function eip712Domain()
        external
        view
        returns (bytes1, string memory, string memory, uint256, address, bytes32, uint256[] memory)
    {
        return (0x0f, "Coinbase Smart Wallet", "1", block.chainid, address(this), 0, new uint256[](0));
    }

    function signed(bytes32 hash, SignatureWrapper memory wrapped) private view returns (bool) {
        bytes memory owner = owners().byIndex[wrapped.ownerIndex];
        if (owner.length == 32) {
            return byAddress(abi.decode(owner, (address)), hash, wrapped.signatureData);
        }
        if (owner.length == 64) {
            (uint256 x, uint256 y) = abi.decode(owner, (uint256, uint256));
            return byPasskey(x, y, hash, abi.decode(wrapped.signatureData, (WebAuthnAuth)));
        }
        revert InvalidOwnerBytesLength(owner);
    }

    function byAddress(address owner, bytes32 hash, bytes memory signature) private view returns (bool) {
        if (owner.code.length > 0) {
            (bool ok, bytes memory answer) =
                owner.staticcall(abi.encodeWithSignature("isValidSignature(bytes32,bytes)", hash, signature));
            return ok && answer.length >= 32 && abi.decode(answer, (bytes32)) == bytes32(bytes4(0x1626ba7e));
        }
        if (signature.length != 65) return false;
        bytes32 r;
        bytes32 s;
        uint8 v;
        assembly ("memory-safe") {
            r := mload(add(signature, 32))
            s := mload(add(signature, 64))
            v := byte(0, mload(add(signature, 96)))
        }
        return owner != address(0) && ecrecover(hash, v, r, s) == owner;
    }

    function byPasskey(uint256 x, uint256 y, bytes32 hash, WebAuthnAuth memory auth) private view returns (bool) {
        bytes memory client = bytes(auth.clientDataJSON);
        bytes memory challenge = abi.encodePacked('"challenge":"', base64Url(hash), '"');
        if (
            auth.s > HALF_P256 || !standsAt(client, auth.typeIndex, '"type":"webauthn.get"')
                || !standsAt(client, auth.challengeIndex, challenge) || auth.authenticatorData[32] & 0x01 == 0
        ) {
            return false;
        }
        bytes32 digest = sha256(abi.encodePacked(auth.authenticatorData, sha256(client)));
        (bool ok, bytes memory answer) = P256.staticcall(abi.encode(digest, auth.r, auth.s, x, y));
        return ok && answer.length == 32 && abi.decode(answer, (uint256)) == 1;
    }

    function standsAt(bytes memory text, uint256 index, bytes memory part) private pure returns (bool) {
        if (index > text.length || text.length - index < part.length) return false;
        for (uint256 i; i < part.length; i++) {
            if (text[index + i] != part[i]) return false;
        }
        return true;
    }

    /// 32 bytes in 43 characters, without padding.
    function base64Url(bytes32 value) private pure returns (bytes memory text) {
        bytes memory alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        text = new bytes(43);
        for (uint256 i; i < 43; i++) {
            uint256 bits = i < 42 ? uint256(value) >> (250 - 6 * i) : uint256(value) << 2;
            text[i] = alphabet[bits & 63];
        }
    }

    function add(bytes memory owner) private {
        Owners storage all = owners();
        if (owner.length != 32 && owner.length != 64) revert InvalidOwnerBytesLength(owner);
        if (all.known[owner]) revert AlreadyOwner(owner);
        all.known[owner] = true;
        all.byIndex[all.next] = owner;
        emit AddOwner(all.next++, owner);
    }

    function owners() private pure returns (Owners storage all) {
        assembly ("memory-safe") {
            all.slot := 0x97e2c6aad4ce5d562ebfaa00db6b9e0fb66ea5d8162ed5b243f51a2e03086f00
        }
    }
}
