// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// Executes many EIP-3009 authorizations of one token in one transaction. A member that the token refuses costs only
/// itself. There is no storage, no owner and no ether, and nothing is ever approved to this contract or held by it, so
/// anybody may call it.
///
/// A batch is a sequence of runs, one after the other without padding:
///
///   payee (20 bytes), number of members (1 byte, not zero), members
///
/// and a member is 141 bytes, its numbers big-endian:
///
///   payer (20), value (8), validAfter (8), validBefore (8), nonce (32), r (32), s (32), v (1)
contract Settler {
    /// Anything but a token with code and whole runs.
    error Malformed();

    uint256 private constant RUN = 21;
    uint256 private constant MEMBER = 141;

    /// The most gas that one member may use: a payer with code decides what happens inside its call.
    uint256 private constant CALL_GAS = 100_000;

    /// The gas that must be left to try one more member. Of what is left, a call gets at most 63/64 (EIP-150), which
    /// has to be CALL_GAS, so that no member fails for want of gas that it is owed; and enough must remain to return.
    /// It is more than CALL_GAS: a payer whose code calls back gets nothing tried.
    uint256 private constant LEAST_GAS = 108_000;

    /// The outcomes of a member. Memory is zero: what is not tried is 0.
    uint256 private constant TRANSFERRED = 1;
    uint256 private constant REFUSED = 2;

    /// Executes the members in order and returns one byte for each: 0 not tried, because too little gas was left,
    /// 1 transferred, 2 refused. Only a malformed call reverts.
    function settle(address token, bytes calldata batch) external returns (bytes memory outcomes) {
        outcomes = new bytes(_count(batch));
        if (token.code.length == 0) revert Malformed();

        bytes4 selector = bytes4(
            keccak256(
                "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)"
            )
        );
        assembly ("memory-safe") {
            // One call's data, behind the outcomes: overwritten for each member.
            let data := mload(0x40)
            mstore(data, selector)
            let arguments := add(data, 4)

            let outcome := add(outcomes, 32)
            let at := batch.offset
            let end := add(at, batch.length)
            for {} lt(at, end) {} {
                mstore(add(arguments, 0x20), shr(96, calldataload(at))) // to
                let last := add(add(at, RUN), mul(byte(20, calldataload(at)), MEMBER))
                for { at := add(at, RUN) } lt(at, last) { at := add(at, MEMBER) } {
                    if lt(gas(), LEAST_GAS) {
                        last := end
                        break
                    }
                    mstore(arguments, shr(96, calldataload(at))) // from
                    mstore(add(arguments, 0x40), shr(192, calldataload(add(at, 20)))) // value
                    mstore(add(arguments, 0x60), shr(192, calldataload(add(at, 28)))) // validAfter
                    mstore(add(arguments, 0x80), shr(192, calldataload(add(at, 36)))) // validBefore
                    mstore(add(arguments, 0xa0), calldataload(add(at, 44))) // nonce
                    mstore(add(arguments, 0xc0), byte(0, calldataload(add(at, 140)))) // v
                    mstore(add(arguments, 0xe0), calldataload(add(at, 76))) // r
                    mstore(add(arguments, 0x100), calldataload(add(at, 108))) // s
                    // What the token returns is not copied: it has to say nothing, and could be made long.
                    let ok := call(CALL_GAS, token, 0, data, 292, 0, 0)
                    mstore8(outcome, sub(REFUSED, ok))
                    outcome := add(outcome, 1)
                }
                at := last
            }
        }
    }

    /// The number of members.
    function _count(bytes calldata batch) private pure returns (uint256 members) {
        uint256 next;
        while (next != batch.length) {
            if (next + RUN > batch.length) revert Malformed();
            uint256 run = uint8(batch[next + RUN - 1]);
            if (run == 0) revert Malformed();
            members += run;
            next += RUN + run * MEMBER;
            if (next > batch.length) revert Malformed();
        }
    }
}
